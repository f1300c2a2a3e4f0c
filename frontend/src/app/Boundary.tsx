/** A page that breaks takes nothing else with it; a page whose file is gone after an update says so. */

import { Button, Code } from '@mantine/core';
import { Component, useEffect, useState, type ReactNode } from 'react';

import { common } from '@/text/common';
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
  const reload = <Button onClick={() => window.location.reload()}>{t('reload')}</Button>;
  if (isFileError(error)) return <NoFile reload={reload} />;
  return (
    <div role="alert">
      <Empty icon="alert" title={t('crashed')} action={reload}>
        {t('crashedHint')} <Code>{error.message}</Code>
      </Empty>
    </div>
  );
}

/** What Chromium, Firefox and Safari say of a script that cannot be had, and Vite of a style sheet. */
export function isFileError(error: Error): boolean {
  return /dynamically imported module|Importing a module|Unable to preload/i.test(error.message);
}

const AGAIN_MS = 3_000;

/** A page's file did not come: the server is away, or it was updated and has the file no more. Which of both, the server tells. */
function NoFile({ reload }: { reload: ReactNode }) {
  const t = useText(shell);
  const c = useText(common);
  const [isThere, setThere] = useState<boolean | null>(null);
  useEffect(() => {
    let wasAway = false;
    const look = async () => {
      const answers = await fetch('/livez', { cache: 'no-store' }).then(
        (answer) => answer.ok,
        () => false,
      );
      if (answers && wasAway) window.location.reload();
      wasAway ||= !answers;
      setThere(answers);
    };
    void look();
    const timer = setInterval(() => void look(), AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <div role="alert">
      <Empty icon="alert" title={isThere ? t('newVersion') : c('offlineTitle')} action={reload}>
        {!isThere && c('offlineHint')}
      </Empty>
    </div>
  );
}
