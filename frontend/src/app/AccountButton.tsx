/** The first letter of whoever is signed in. It opens the menu of the account. */

import { ActionIcon, Text, type ActionIconProps } from '@mantine/core';
import type { ComponentPropsWithRef } from 'react';

import { useSession } from '@/api/session';
import { useText } from '@/text/language';

import { shell } from './text';

export function AccountButton(props: ActionIconProps & ComponentPropsWithRef<'button'>) {
  const t = useText(shell);
  const { who } = useSession();
  return (
    <ActionIcon variant="default" radius="xl" size="lg" aria-haspopup="menu" aria-label={`${t('accountMenu')}: ${who.user.name}`} {...props}>
      <Text fw={600} size="sm" span aria-hidden="true">
        {[...who.user.name][0]?.toUpperCase() ?? '·'}
      </Text>
    </ActionIcon>
  );
}
