/** Who is signed in; theme, language, sign out. Read when the button is first pressed, and open from then on. */

import { Menu, useMantineColorScheme } from '@mantine/core';
import { useRef } from 'react';
import { Link } from 'react-router';

import { signOut, useSession } from '@/api/session';
import { LANGUAGES, useLanguage, useText } from '@/text/language';
import { Icon } from '@/ui/Icon';
import { notifyProblem } from '@/ui/notify';

import { AccountButton } from './AccountButton';
import { shell } from './text';

export default function AccountMenu() {
  const t = useText(shell);
  const { who, isOperator } = useSession();
  const { language, choose } = useLanguage();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const button = useRef<HTMLButtonElement>(null);
  const themes = [
    { value: 'light', icon: 'sun' },
    { value: 'dark', icon: 'moon' },
    { value: 'auto', icon: 'system' },
  ] as const;
  return (
    <Menu position="bottom-end" width={230} withinPortal defaultOpened onClose={() => button.current?.focus()}>
      <Menu.Target>
        <AccountButton ref={button} />
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{who.user.name}</Menu.Label>
        <Menu.Item component={Link} to="/account" leftSection={<Icon name="account" size={16} />}>
          {t('account')}
        </Menu.Item>
        <Menu.Divider />
        <Menu.Label>{t('theme')}</Menu.Label>
        {themes.map((choice) => (
          <Menu.Item key={choice.value} closeMenuOnClick={false} leftSection={<Icon name={choice.icon} size={16} />} rightSection={colorScheme === choice.value ? <Icon name="check" size={14} /> : null} aria-current={colorScheme === choice.value} onClick={() => setColorScheme(choice.value)}>
            {t(choice.value === 'auto' ? 'system' : choice.value)}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Label>{t('language')}</Menu.Label>
        {LANGUAGES.map((choice) => (
          <Menu.Item key={choice.value} lang={choice.value === 'zh' ? 'zh-CN' : 'en'} closeMenuOnClick={false} leftSection={<Icon name="language" size={16} />} rightSection={language === choice.value ? <Icon name="check" size={14} /> : null} aria-current={language === choice.value} onClick={() => choose(choice.value)}>
            {choice.label}
          </Menu.Item>
        ))}
        <Menu.Divider />
        {isOperator && (
          <Menu.Item component="a" href="/admin/" leftSection={<Icon name="features" size={16} />}>
            {t('console')}
          </Menu.Item>
        )}
        <Menu.Item component="a" href="/api/v1/docs" leftSection={<Icon name="link" size={16} />}>
          {t('api')}
        </Menu.Item>
        <Menu.Item leftSection={<Icon name="signOut" size={16} />} onClick={() => void signOut().catch(notifyProblem)}>
          {t('signOut')}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
