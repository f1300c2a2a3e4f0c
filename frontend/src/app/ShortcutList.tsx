/** What `?` shows. */

import { Kbd, Modal, Table } from '@mantine/core';

import { common } from '@/text/common';
import { useText } from '@/text/language';

import type { PageEntry } from './pages';
import { shell } from './text';

export default function ShortcutList({ pages, onClose }: { pages: readonly PageEntry[]; onClose: () => void }) {
  const t = useText(shell);
  const words = useText(common);
  const rows: [string[], string][] = [
    [['Ctrl', 'K'], t('shortcutPalette')],
    [['?'], t('shortcutHelp')],
    [['/'], t('shortcutSearch')],
    ...pages.filter((page) => page.key).map((page): [string[], string] => [['g', page.key ?? ''], t('shortcutGo', { page: t(page.name) })]),
  ];
  return (
    <Modal opened onClose={onClose} title={t('shortcuts')} closeButtonProps={{ 'aria-label': words('close') }}>
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
    </Modal>
  );
}
