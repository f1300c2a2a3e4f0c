/** Which columns of a table are shown: the person's choice, kept in this browser, because it goes with the width of its screen. */

import { Button, Menu } from '@mantine/core';
import { useCallback, useMemo, useState, type ReactNode } from 'react';

import { texts, useText } from '@/text/language';

import { readChoice, visibilityOf, withColumn, type Choice } from './columnChoice';
import { Icon } from './Icon';
import type { Column } from './Rows';

const words = texts({ columns: 'Columns', asAtFirst: 'As at first' }, { columns: '列', asAtFirst: '恢复默认' });

export interface ColumnChoice {
  /** For `Rows`. */
  visibility: Record<string, boolean>;
  menu: ReactNode;
}

/** `name`: of the table, the same at every visit. */
export function useColumnChoice<T>(name: string, columns: readonly Column<T>[]): ColumnChoice {
  const key = `berth-columns-${name}`;
  const [choice, setChoice] = useState<Choice>(() => readChoice(localStorage.getItem(key)));
  const keep = useCallback(
    (next: Choice) => {
      setChoice(next);
      if (Object.keys(next).length === 0) localStorage.removeItem(key);
      else localStorage.setItem(key, JSON.stringify(next));
    },
    [key],
  );
  return useMemo(() => {
    const visibility = visibilityOf(columns, choice);
    return { visibility, menu: <ColumnMenu columns={columns} visibility={visibility} isChanged={Object.keys(choice).length > 0} toggle={(column) => keep(withColumn(columns, choice, column))} reset={() => keep({})} /> };
  }, [columns, choice, keep]);
}

function ColumnMenu<T>({ columns, visibility, isChanged, toggle, reset }: { columns: readonly Column<T>[]; visibility: Record<string, boolean>; isChanged: boolean; toggle: (key: string) => void; reset: () => void }) {
  const t = useText(words);
  return (
    <Menu position="bottom-end" closeOnItemClick={false}>
      <Menu.Target>
        <Button variant="default" leftSection={<Icon name="columns" size={16} />}>
          {t('columns')}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {columns.map(
          (column) =>
            column.choice && (
              <Menu.CheckboxItem key={column.key} checked={visibility[column.key] !== false} onChange={() => toggle(column.key)}>
                {column.header}
              </Menu.CheckboxItem>
            ),
        )}
        <Menu.Divider />
        <Menu.Item leftSection={<Icon name="refresh" size={14} />} disabled={!isChanged} onClick={reset}>
          {t('asAtFirst')}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
