/** Files of whole folders, as a browser gives them: chosen in a dialogue, or dropped. Paths begin with the folder's own name. */

export interface Found {
  path: string;
  file: File;
}

/** More than were asked for. */
export class TooManyFiles extends Error {}

/** What a field of files gives; one for folders tells the path of each. */
export function chosen(list: FileList | null): Found[] {
  return Array.from(list ?? [], (file) => ({ path: file.webkitRelativePath || file.name, file }));
}

/** What was dropped, as long as the event lasts: only then does a browser give it. */
export function entriesOf(data: DataTransfer): FileSystemEntry[] {
  return Array.from(data.items, (item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
}

/** All files below some entries, in order of their paths. Throws TooManyFiles beyond `most`. */
export async function walk(entries: readonly FileSystemEntry[], most: number): Promise<Found[]> {
  const found: Found[] = [];
  const waiting = [...entries];
  for (let entry = waiting.pop(); entry; entry = waiting.pop()) {
    if (isFolder(entry)) waiting.push(...(await childrenOf(entry, most)));
    else if (isFile(entry)) found.push({ path: entry.fullPath.replace(/^\/+/, ''), file: await fileOf(entry) });
    if (found.length + waiting.length > most) throw new TooManyFiles();
  }
  return found.sort((one, other) => (one.path < other.path ? -1 : 1));
}

export function isFolder(entry: FileSystemEntry): entry is FileSystemDirectoryEntry {
  return entry.isDirectory;
}

function isFile(entry: FileSystemEntry): entry is FileSystemFileEntry {
  return entry.isFile;
}

/** A reader gives a folder piece by piece, and nothing once it has given all. */
async function childrenOf(folder: FileSystemDirectoryEntry, most: number): Promise<FileSystemEntry[]> {
  const reader = folder.createReader();
  const all: FileSystemEntry[] = [];
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return all;
    all.push(...some);
    if (all.length > most) throw new TooManyFiles();
  }
}

function fileOf(entry: FileSystemFileEntry): Promise<File> {
  return new Promise((resolve, reject) => entry.file(resolve, reject));
}
