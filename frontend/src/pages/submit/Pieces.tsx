/** Smaller parts of the page: the editor with what it needs until it is there, examples, and files from outside. */

import { Button, FileButton, Menu, Textarea } from '@mantine/core';
import { Component, lazy, Suspense, type ComponentProps, type ReactNode } from 'react';

import { useText } from '@/text/language';
import { Icon } from '@/ui/Icon';
import { Loading } from '@/ui/Feedback';

import { SAMPLES } from './samples';
import { words } from './text';

const Editor = lazy(() => import('./Editor'));

/** The editor; a plain field where its chunk cannot be loaded. */
export function JobEditor(props: ComponentProps<typeof Editor>) {
  const t = useText(words);
  return (
    <EditorFence fallback={<Textarea label={props.label} description={t('editorFault')} value={props.text} onChange={(event) => props.onText(event.currentTarget.value)} autosize minRows={14} maxRows={40} spellCheck={false} styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }} />}>
      <Suspense fallback={<div style={{ height: props.height }}><Loading lines={8} /></div>}>
        <Editor {...props} />
      </Suspense>
    </EditorFence>
  );
}

class EditorFence extends Component<{ children: ReactNode; fallback: ReactNode }, { isBroken: boolean }> {
  override state = { isBroken: false };
  static getDerivedStateFromError() {
    return { isBroken: true };
  }
  override render() {
    return this.state.isBroken ? this.props.fallback : this.props.children;
  }
}

export function Samples({ choose }: { choose: (text: string) => void }) {
  const t = useText(words);
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button variant="default" rightSection={<Icon name="down" size={14} />}>
          {t('samples')}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {SAMPLES.map((sample) => (
          <Menu.Item key={sample.name} onClick={() => choose(sample.text)}>
            {t(`sample_${sample.name}`)}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

export function ImportButton({ open }: { open: (file: File) => void }) {
  const t = useText(words);
  return (
    <FileButton accept=".yaml,.yml,.json,.txt,.sh,.bash,.sbatch,.slurm,.job" onChange={(file) => file && open(file)}>
      {(props) => (
        <Button {...props} variant="default" title={t('importHint')} leftSection={<Icon name="download" size={16} />}>
          {t('importFile')}
        </Button>
      )}
    </FileButton>
  );
}
