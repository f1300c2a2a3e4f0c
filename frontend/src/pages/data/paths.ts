/** Paths inside of a volume, as the API, the portal's address and the screen write them. */

export function join(folder: string, name: string): string {
  return folder ? `${folder}/${name}` : name;
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** The name of a file of this computer as paths of a volume are written: a backslash twice, a control character as `\xHH`. */
export function written(name: string): string {
  return name.replaceAll('\\', '\\\\').replace(/\p{Cc}/gu, (character) => Array.from(new TextEncoder().encode(character), (byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join(''));
}

export function pageOf(volume: string, folder: string): string {
  return `/data/${encodeURIComponent(volume)}${folder ? `/${folder.split('/').map(encodeURIComponent).join('/')}` : ''}`;
}

/** The address that the browser fetches a file from by itself: large ones never pass through the page. */
export function contentOf(volume: string, path: string): string {
  return `/api/v1/volumes/${encodeURIComponent(volume)}/content?path=${encodeURIComponent(path)}`;
}

export function parentsOf(folder: string): { name: string; path: string }[] {
  const names = folder.split('/').filter(Boolean);
  return names.map((name, index) => ({ name, path: names.slice(0, index + 1).join('/') }));
}
