/** A page that breaks takes nothing else with it; a page whose file is gone after an update says so. */

import { Button, Code } from '@mantine/core';
import { Component, type ReactNode } from 'react';

import { useText } from '@/text/language';
import { Empty } from '@/ui/Feedback';

import { shell } from './text';

export class PageBoundary extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    return this.state.error ? <Broken error={this.state.error} /> : this.props.children;
  }
}

function Broken({ error }: { error: Error }) {
  const t = useText(shell);
  const isOld = /dynamically imported module|Importing a module/.test(error.message);
  return (
    <div role="alert">
      <Empty icon="alert" title={isOld ? t('newVersion') : t('crashed')} action={<Button onClick={() => window.location.reload()}>{t('reload')}</Button>}>
        {!isOld && (
          <>
            {t('crashedHint')} <Code>{error.message}</Code>
          </>
        )}
      </Empty>
    </div>
  );
}
