/** A title on yellow or orange ground in the colour of text: Mantine's own is too faint there. */

export const darkTitle = { title: { color: 'var(--mantine-color-text)' } } as const;
