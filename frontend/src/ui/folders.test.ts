/** Folders that are dropped, as a browser gives them: piece by piece. */

import { describe, expect, it } from 'vitest';

import { TooManyFiles, walk } from './folders';

type Tree = { [name: string]: Tree | string };

function entry(name: string, tree: Tree | string, parent = ''): FileSystemEntry {
  const fullPath = `${parent}/${name}`;
  if (typeof tree === 'string') return { isFile: true, isDirectory: false, name, fullPath, file: (done: (file: File) => void) => done(new File([tree], name)) } as unknown as FileSystemEntry;
  const children = Object.entries(tree).map(([child, below]) => entry(child, below, fullPath));
  const createReader = () => {
    let at = 0;
    return { readEntries: (done: (some: FileSystemEntry[]) => void) => done(children.slice(at, (at += 2))) };
  };
  return { isFile: false, isDirectory: true, name, fullPath, createReader } as unknown as FileSystemEntry;
}

describe('a dropped folder', () => {
  it('gives all of its files with their paths, however many pieces they come in', async () => {
    const found = await walk([entry('code', { 'c.py': '', a: { b: { 'x.txt': '1' } }, 'b.py': '', 'a.py': '', 'd.py': '' }), entry('one.txt', '')], 10);
    expect(found.map(({ path }) => path)).toEqual(['code/a.py', 'code/a/b/x.txt', 'code/b.py', 'code/c.py', 'code/d.py', 'one.txt']);
  });

  it('is refused before too many are held', async () => {
    await expect(walk([entry('code', { a: '', b: '', c: '' })], 2)).rejects.toThrow(TooManyFiles);
  });
});
