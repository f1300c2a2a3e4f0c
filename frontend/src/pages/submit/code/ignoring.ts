/**
 * What of a folder stays at home: as the command line has it (client/src/berth/snapshots.py), in the language of `.gitignore`.
 *
 * `.berthignore` in the folder says it; without one version control, caches and environments stay.
 */

export const IGNORE_FILE = '.berthignore';
const ALWAYS = ['.git/', '.hg/', '.svn/'];
const BY_DEFAULT = ['__pycache__/', '*.pyc', '.venv/', 'venv/', 'node_modules/', '.ipynb_checkpoints/', '.mypy_cache/', '.pytest_cache/', '.ruff_cache/', '.DS_Store'];

interface Rule {
  pattern: RegExp;
  isKept: boolean;
  isForFolders: boolean;
}

/** Tells of each path whether it stays, by the lines of `.berthignore`; null where there is none. */
export function ignoring(text: string | null): (path: string) => boolean {
  const lines = text === null ? BY_DEFAULT : text.replace(/^\uFEFF/, '').split(/\r?\n/);
  const rules = [...lines, ...ALWAYS].map(ruleOf).filter((rule) => rule !== null);
  const stays = (path: string, isFolder: boolean) => {
    const last = rules.findLast((rule) => (isFolder || !rule.isForFolders) && rule.pattern.test(path));
    return last !== undefined && !last.isKept;
  };
  const folders = new Map<string, boolean>();
  /** What lies in a folder that stays cannot come along. */
  const staysWhole = (folder: string): boolean => {
    const known = folders.get(folder);
    if (known !== undefined) return known;
    const at = folder.lastIndexOf('/');
    const found = (at > 0 && staysWhole(folder.slice(0, at))) || stays(folder, true);
    folders.set(folder, found);
    return found;
  };
  return (path) => {
    const at = path.lastIndexOf('/');
    return (at > 0 && staysWhole(path.slice(0, at))) || stays(path, false);
  };
}

/** One line (gitignore(5), "pattern format"). */
function ruleOf(line: string): Rule | null {
  let body = line.replace(/(?<!\\)[ \t]+$/, '');
  if (body === '' || body.startsWith('#')) return null;
  const isKept = body.startsWith('!');
  if (isKept) body = body.slice(1);
  const isForFolders = body.endsWith('/');
  if (isForFolders) body = body.slice(0, -1);
  const isAnchored = body.includes('/');
  if (body.startsWith('/')) body = body.slice(1);
  if (body === '') return null;
  return { pattern: new RegExp(`^${isAnchored ? '' : '(?:.*/)?'}${expressionOf(body)}$`, 'su'), isKept, isForFolders };
}

const TOKEN = /\*\*\/|\/\*\*$|\*+|\?|\[(!|\^)?(\]?(?:\\.|[^\]\\])*)\]|\\(.)|[^*?[\\]+?|./gsu;

function expressionOf(body: string): string {
  return body.replace(TOKEN, (token, isNot: string | undefined, group: string | undefined, escaped: string | undefined) => {
    if (token === '**/') return '(?:.*/)?';
    if (token === '/**') return '/.+';
    if (token.startsWith('*')) return '[^/]*';
    if (token === '?') return '[^/]';
    if (group !== undefined && group !== '') return `(?!/)[${isNot ? '^' : ''}${group.replace(/[[\]\\^]/g, '\\$&')}]`;
    return (escaped ?? token).replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
  });
}
