/** For somebody with nothing yet: three steps, each on the command line and here. */

import { Alert, Button, Code, Group, Paper, SimpleGrid, Stack, Text, ThemeIcon, Title } from '@mantine/core';
import type { ReactNode } from 'react';
import { Link } from 'react-router';

import { useSession } from '@/api/session';
import { useText } from '@/text/language';
import { CopyText, quote } from '@/ui/CopyAs';
import { Icon } from '@/ui/Icon';

import { words } from './text';

export function FirstSteps() {
  const t = useText(words);
  const session = useSession();
  if (session.who.tenants.length === 0 && !session.isOperator) {
    return (
      <Alert icon={<Icon name="info" />} title={t('nobodyTitle')}>
        {t('nobodyText', { name: session.who.user.name })}
      </Alert>
    );
  }
  if (!session.may('member')) {
    return session.isOperator ? null : (
      <Alert icon={<Icon name="info" />} title={t('viewerTitle')}>
        {t('viewerText')}
      </Alert>
    );
  }
  return (
    <Stack gap="sm" component="section" aria-label={t('start')}>
      <Title order={2} size="h4">
        {t('start')}
      </Title>
      <SimpleGrid cols={{ base: 1, md: 3 }}>
        <Step number={1} title={t('step1')} text={t('step1Text')} command={`berth login --server ${quote(location.origin)}`} action={<Button component={Link} to="/account?tab=tokens" variant="default" size="xs">{t('toToken')}</Button>} />
        <Step
          number={2}
          title={t('step2')}
          text={t('step2Text')}
          command="berth submit --gpu 1 python train.py"
          action={
            <Group gap="xs">
              <Button component={Link} to="/submit" size="xs">
                {t('toForm')}
              </Button>
              {session.has('templates') && (
                <Button component={Link} to="/templates" variant="default" size="xs">
                  {t('toTemplates')}
                </Button>
              )}
            </Group>
          }
        />
        <Step number={3} title={t('step3')} text={t('step3Text')} command="berth logs -f train" action={<Button component={Link} to="/jobs" variant="default" size="xs">{t('toJobs')}</Button>} />
      </SimpleGrid>
    </Stack>
  );
}

function Step({ number, title, text, command, action }: { number: number; title: string; text: string; command: string; action: ReactNode }) {
  const t = useText(words);
  return (
    <Paper withBorder p="md">
      <Stack gap="sm" h="100%">
        <Group gap="sm" wrap="nowrap">
          <ThemeIcon radius="xl" variant="light" aria-hidden="true">
            <Text fw={700} size="sm" span>
              {number}
            </Text>
          </ThemeIcon>
          <Title order={3} size="h6">
            {title}
          </Title>
        </Group>
        <Text size="sm" c="dimmed" style={{ flex: 1 }}>
          {text}
        </Text>
        <Group gap={4} wrap="nowrap">
          <Code block style={{ flex: 1, minWidth: 0, overflowX: 'auto' }} tabIndex={0}>
            {command}
          </Code>
          <CopyText text={command} label={t('copy')} />
        </Group>
        {action}
      </Stack>
    </Paper>
  );
}
