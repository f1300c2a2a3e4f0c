import { describe, expect, it } from 'vitest';

import { ignoring } from './ignoring';

describe('what stays at home', () => {
  it('is version control, caches and environments without a file that says it', () => {
    const stays = ignoring(null);
    for (const path of ['.git/config', 'a/.git/x', 'a/__pycache__/b.pyc', 'c.pyc', 'node_modules/x/y.js', '.DS_Store', 'deep/er/venv/bin/python']) expect(stays(path), path).toBe(true);
    for (const path of ['train.py', '.gitignore', 'venv.py', 'a/b/c.txt', 'data/.keep']) expect(stays(path), path).toBe(false);
  });

  it.each([
    ['*.log', ['a.log', 'x/y.log'], ['a.log.txt']],
    ['/build', ['build', 'build/a'], ['src/build']],
    ['docs/*.md', ['docs/a.md'], ['docs/x/a.md', 'x/docs/a.md']],
    ['out/', ['out/a', 'x/out/b'], ['out']],
    ['**/tmp', ['tmp', 'a/b/tmp', 'tmp/x'], ['tmpx']],
    ['data/**', ['data/a', 'data/b/c'], ['data']],
    ['a/**/z', ['a/z', 'a/b/z', 'a/b/c/z'], ['z', 'b/a/z']],
    ['*.bin\n!keep.bin', ['x.bin'], ['keep.bin', 'a/keep.bin']],
    ['out/\n!out/keep', ['out/keep'], []],
    ['file?.txt', ['file1.txt'], ['file.txt', 'file10.txt']],
    ['[ab]*.c', ['a.c', 'bx.c'], ['c.c']],
    ['[!a].c', ['b.c'], ['a.c']],
    ['\\#x\n# a comment\n\n\\!y', ['#x', '!y'], ['x', 'y']],
    ['a+b(1).txt', ['a+b(1).txt'], ['aab1.txt']],
    ['trailing   ', ['trailing'], ['trailing   x']],
  ])('is what %j says', (text, stay, come) => {
    const stays = ignoring(text);
    for (const path of stay) expect(stays(path), path).toBe(true);
    for (const path of come) expect(stays(path), path).toBe(false);
  });

  it('is always version control', () => {
    expect(ignoring('')('.git/HEAD')).toBe(true);
    expect(ignoring('')('__pycache__/a.pyc')).toBe(false);
  });
});
