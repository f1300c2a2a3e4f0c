/** Words that are cut off are told in whole while somebody points at them; jsdom measures nothing, so the widths are given. */

import { afterEach, beforeEach, expect, it } from 'vitest';

import { tellWholeText } from './wholeText';

let end: () => void;
beforeEach(() => {
  document.body.innerHTML = '<div id="cell" style="text-overflow: ellipsis"><b id="name">a very long name</b></div><div id="other" style="text-overflow: ellipsis">short</div><p id="told" title="mine" style="text-overflow: ellipsis">own words</p>';
  end = tellWholeText();
});
afterEach(() => end());

const find = (id: string) => document.getElementById(id) as HTMLElement;
function measure(id: string, whole: number, seen: number): void {
  Object.defineProperties(find(id), { scrollWidth: { value: whole }, clientWidth: { value: seen }, innerText: { value: find(id).textContent } });
}
const point = (id: string) => find(id).dispatchEvent(new MouseEvent('mouseover', { bubbles: true }));

it('tells the cell that cuts them, and nothing any more when the pointer is elsewhere', () => {
  measure('cell', 300, 100);
  point('name');
  expect(find('cell').title).toBe('a very long name');
  point('other');
  expect(find('cell').hasAttribute('title')).toBe(false);
});

it('says nothing of what is seen whole, and leaves a title that is there', () => {
  measure('other', 50, 100);
  measure('told', 300, 100);
  point('other');
  point('told');
  expect(find('other').hasAttribute('title')).toBe(false);
  expect(find('told').title).toBe('mine');
  point('other');
  expect(find('told').title).toBe('mine');
});
