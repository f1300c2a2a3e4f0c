/** The same sentence for what holds bare text alone (a title, a file, the editor's own messages): without the backticks. */
export function plain(text: string): string {
  return text.replace(/`([^`\n]+)`/g, '$1');
}
