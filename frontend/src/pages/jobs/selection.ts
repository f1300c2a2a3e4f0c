/** Which rows are chosen, outside of React's state: a tick redraws one row and the bar, not the list. */

import { useCallback, useSyncExternalStore } from 'react';

export class Selection {
  private chosen = new Set<string>();
  private listeners = new Set<() => void>();
  private anchor: string | null = null;
  /** A new array after each change, for useSyncExternalStore. */
  ids: readonly string[] = [];

  watch = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  has(id: string): boolean {
    return this.chosen.has(id);
  }

  /** Tick one; with `range`, everything between it and the one ticked before, in the order of `all`. */
  toggle(id: string, all: readonly string[], range: boolean): void {
    const on = !this.chosen.has(id);
    const from = range && this.anchor !== null ? all.indexOf(this.anchor) : -1;
    const to = all.indexOf(id);
    const touched = from >= 0 && to >= 0 ? all.slice(Math.min(from, to), Math.max(from, to) + 1) : [id];
    for (const each of touched) this.put(each, range ? true : on);
    this.anchor = id;
    this.tell();
  }

  set(ids: readonly string[]): void {
    this.chosen = new Set(ids);
    this.tell();
  }

  clear(): void {
    this.anchor = null;
    this.set([]);
  }

  private put(id: string, on: boolean): void {
    if (on) this.chosen.add(id);
    else this.chosen.delete(id);
  }

  private tell(): void {
    this.ids = [...this.chosen];
    for (const listener of this.listeners) listener();
  }
}

export function useSelected(selection: Selection): readonly string[] {
  return useSyncExternalStore(selection.watch, () => selection.ids);
}

export function useIsSelected(selection: Selection, id: string): boolean {
  return useSyncExternalStore(
    selection.watch,
    useCallback(() => selection.has(id), [selection, id]),
  );
}
