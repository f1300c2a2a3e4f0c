/** What `?` shows. */

import { Kbd, Table } from '@mantine/core';

import { useText } from '@/text/language';
import { Window } from '@/ui/Window';

import type { PageEntry } from './pages';
import { shell } from './text';

export default function ShortcutList({ pages, onClose }: { pages: readonly PageEntry[]; onClose: () => void }) {
  const t = useText(shell);
  const rows: [string[], string][] = [
    [['Ctrl', 'K'], t('shortcutPalette')],
    [['?'], t('shortcutHelp')],
    [['/'], t('shortcutSearch')],
    ...pages.filter((page) => page.key).map((page): [string[], string] => [['g', page.key ?? ''], t('shortcutGo', { page: t(page.name) })]),
  ];
  return (
    <Window onClose={onClose} title={t('shortcuts')}>
      <Table>
        <Table.Tbody>
          {rows.map(([keys, label]) => (
            <Table.Tr key={label}>
              <Table.Td w={120}>
                {keys.map((key) => (
                  <Kbd key={key} mr={4}>
                    {key}
                  </Kbd>
                ))}
              </Table.Td>
              <Table.Td>{label}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Window>
  );
}
