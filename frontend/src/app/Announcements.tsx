/** What operators have to tell, above every page, until it is over or dismissed. */

export default function Announcements() {
  return null;
}
