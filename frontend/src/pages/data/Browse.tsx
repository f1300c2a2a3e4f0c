/** The files of one volume, folder by folder: look, fetch, bring, delete. */

import { ActionIcon, Anchor, Box, Breadcrumbs, Button, Group, List, Stack, Text, TextInput } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useMemo, useRef, useState, type DragEvent } from 'react';
import { Link, useNavigate, useParams } from 'react-router';

import { api, take, type Schemas } from '@/api/client';
import { usePaged } from '@/api/paging';
import { useSession } from '@/api/session';
import { common } from '@/text/common';
import { useFormat } from '@/text/format';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { CopyAs, curl, quote } from '@/ui/CopyAs';
import { Dialog } from '@/ui/Dialog';
import { Empty, Loading, ProblemView } from '@/ui/Feedback';
import { FolderButton } from '@/ui/FolderButton';
import { chosen, entriesOf, isFolder, TooManyFiles, walk, type Found } from '@/ui/folders';
import { Icon } from '@/ui/Icon';
import { notify, notifyProblem } from '@/ui/notify';
import { Page } from '@/ui/Page';
import { PagedView } from '@/ui/PagedView';
import { Rows, type Column } from '@/ui/Rows';
import { Mark } from '@/ui/Status';
import { When } from '@/ui/Times';
import { Window } from '@/ui/Window';

import classes from './Data.module.css';
import { Sharing } from './Grants';
import { contentOf, nameOf, pageOf, parentsOf, written } from './paths';
import { words } from './text';
import { add, FILES_MAX } from './uploads';
import { EditForm, Used, Where, type Volume } from './Volumes';

type File_ = Schemas['FileOut'];
const REPLACED_SHOWN = 10;
const SEARCH_FROM = 12;
const PAGES_MAX = 20;

export default function Browse() {
  const params = useParams();
  const volume_id = params.volume ?? '';
  const folder = (params['*'] ?? '').replace(/\/+$/, '');
  const t = useText(words);
  const volume = useQuery({ queryKey: ['volume', volume_id], queryFn: () => take(api.GET('/api/v1/volumes/{volume_id}', { params: { path: { volume_id } } })) });
  if (!volume.data) return <Page title={t('title')}>{volume.error ? <ProblemView error={volume.error} retry={() => void volume.refetch()} /> : <Loading />}</Page>;
  return volume.data.kind === 'local' ? <Folder volume={volume.data} folder={folder} /> : <Elsewhere volume={volume.data} />;
}

function useRights(volume: Volume): { mayWrite: boolean; mayEdit: boolean; mayShare: boolean; tenant: string | null } {
  const session = useSession();
  // Another tenant's volume is written in the name of one of one's own.
  const tenant = volume.is_granted ? (session.who.tenants.find((each) => session.may('member', each.slug) && volume.grants.some((grant) => grant.tenant.slug === each.slug))?.slug ?? null) : volume.tenant.slug;
  const isManager = session.may('manager', volume.tenant.slug);
  // What is there already is an operator's to name, and so to change.
  const isPlaced = volume.kind === 'nfs' || (volume.kind === 'claim' && volume.claim !== `volume-${volume.id}`);
  return {
    mayWrite: !volume.read_only && (volume.is_granted ? tenant !== null || session.may('member') : session.may('member', volume.tenant.slug)),
    mayEdit: isPlaced ? session.isOperator : isManager || (session.may('member', volume.tenant.slug) && volume.created_by?.id === session.who.user.id),
    mayShare: isManager && volume.kind !== 'claim',
    tenant,
  };
}

function Folder({ volume, folder }: { volume: Volume; folder: string }) {
  const t = useText(words);
  const rights = useRights(volume);
  const picker = useRef<HTMLInputElement>(null);
  const [isOver, setOver] = useState(false);
  const [pending, setPending] = useState<{ files: Found[]; replaced: string[] } | null>(null);
  const files = usePaged(['volume-files', volume.id, folder], (cursor) =>
    take(api.GET('/api/v1/volumes/{volume_id}/files', { params: { path: { volume_id: volume.id }, query: { ...(folder ? { path: folder } : {}), cursor } } })),
  );
  const place = folder ? `${volume.mount_as}:${folder}` : `${volume.mount_as}:`;

  const begin = (found: Found[]) => {
    setPending(null);
    add(found, { volume: volume.id, volumeName: volume.name, tenant: rights.tenant, folder });
  };
  const ask = (found: Found[], files: readonly File_[]) => {
    const there = new Set(files.map((file) => nameOf(file.path)));
    const replaced = [...new Set(found.map(({ path }) => written(path.split('/')[0] ?? '')))].filter((name) => there.has(name));
    if (replaced.length > 0) setPending({ files: found, replaced });
    else begin(found);
  };
  const choose = (found: Found[]) => {
    if (found.length === 0) return;
    if (found.length > FILES_MAX) {
      notify(t('tooMany', { count: FILES_MAX }), 'failed');
      return;
    }
    if (!files.hasMore) ask(found, files.rows ?? []);
    else filesIn(volume.id, folder).then((there) => ask(found, there)).catch(notifyProblem); // Those that are not shown yet are replaced, too.
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    if (!rights.mayWrite) return;
    const entries = entriesOf(event.dataTransfer);
    if (!entries.some(isFolder)) choose(chosen(event.dataTransfer.files));
    else
      walk(entries, FILES_MAX)
        .then(choose)
        .catch((error: unknown) => (error instanceof TooManyFiles ? notify(t('tooMany', { count: FILES_MAX }), 'failed') : notifyProblem(error)));
  };
  const over = (event: DragEvent) => {
    if (!rights.mayWrite || !event.dataTransfer.types.includes('Files')) return;
    event.preventDefault();
    setOver(true);
  };

  return (
    <Page
      wide
      title={volume.name}
      subtitle={<Facts volume={volume} />}
      actions={
        <>
          <CopyAs
            ways={{
              cli: `berth volumes files ${quote(volume.mount_as)}${folder ? ` ${quote(folder)}` : ''}\nberth cp ./data ${quote(place)}`,
              curl: curl('GET', `/volumes/${volume.id}/files${folder ? `?path=${encodeURIComponent(folder)}` : ''}`),
              python: `import berth\n\nwith berth.Client() as client:\n    print(client.request("GET", "/volumes/${volume.id}/files", params=${JSON.stringify(folder ? { path: folder } : {})}))`,
            }}
          />
          <Manage volume={volume} />
          {rights.mayWrite && <FolderButton label={t('uploadFolder')} onFolder={choose} variant="default" leftSection={<Icon name="data" size={16} />} />}
          {rights.mayWrite && (
            <Button leftSection={<Icon name="submit" size={16} />} onClick={() => picker.current?.click()}>
              {t('upload')}
            </Button>
          )}
        </>
      }
    >
      <input
        ref={picker}
        type="file"
        multiple
        hidden
        aria-label={t('upload')}
        onChange={(event) => {
          choose(chosen(event.currentTarget.files));
          event.currentTarget.value = '';
        }}
      />
      <Breadcrumbs>
        <Anchor component={Link} to="/data" size="sm">
          {t('root')}
        </Anchor>
        <Anchor component={Link} to={pageOf(volume.id, '')} size="sm" aria-current={folder === '' ? 'page' : undefined}>
          {volume.name}
        </Anchor>
        {parentsOf(folder).map((parent) => (
          <Anchor key={parent.path} component={Link} to={pageOf(volume.id, parent.path)} size="sm" aria-current={parent.path === folder ? 'page' : undefined}>
            {parent.name}
          </Anchor>
        ))}
      </Breadcrumbs>
      <Box className={classes.drop} data-over={isOver || undefined} onDragOver={over} onDragLeave={() => setOver(false)} onDrop={drop}>
        <PagedView list={files} empty={<EmptyFolder mayWrite={rights.mayWrite} place={place} />}>
          {(rows) => <Files volume={volume} files={rows} hasMore={files.hasMore} mayWrite={rights.mayWrite} />}
        </PagedView>
      </Box>
      {rights.mayWrite && (
        <Text size="xs" c="dimmed">
          {t('dropHere')}
        </Text>
      )}
      {pending && (
        <Replace names={pending.replaced} close={() => setPending(null)} go={() => begin(pending.files)} />
      )}
    </Page>
  );
}

/** A volume whose files jobs alone see. */
function Elsewhere({ volume }: { volume: Volume }) {
  const t = useText(words);
  return (
    <Page wide title={volume.name} subtitle={<Facts volume={volume} />} actions={<Manage volume={volume} />}>
      <Anchor component={Link} to="/data" size="sm">
        {t('root')}
      </Anchor>
      <Empty icon="data" title={t('elsewhere')} command={`mounts: [{volume: ${volume.mount_as}, path: /data}]`}>
        {t('elsewhereHint')}
      </Empty>
    </Page>
  );
}

function Facts({ volume }: { volume: Volume }) {
  const t = useText(words);
  return (
    <Stack gap={6}>
      <Group gap="xs">
        <Text size="sm">{volume.tenant.name}</Text>
        <Where volume={volume} />
        {volume.is_granted && <Mark icon="link" color="grape" label={t('grantedBy', { name: volume.tenant.name })} size="sm" />}
        {volume.read_only && <Mark icon="key" color="gray" label={t('readOnly')} size="sm" />}
        {volume.description && <Text size="sm">{volume.description}</Text>}
      </Group>
      <Box maw={320}>
        <Used volume={volume} />
      </Box>
    </Stack>
  );
}

function Manage({ volume }: { volume: Volume }) {
  const t = useText(words);
  const rights = useRights(volume);
  const navigate = useNavigate();
  const cache = useQueryClient();
  const remove = async () => {
    await take(api.DELETE('/api/v1/volumes/{volume_id}', { params: { path: { volume_id: volume.id } } }));
    await cache.invalidateQueries({ queryKey: ['volumes'] });
    await navigate('/data');
  };
  return (
    <>
      {rights.mayShare && <Sharing volume={volume} />}
      {rights.mayEdit && (
        <Dialog label={t('edit')} title={t('edit')} variant="default">
          {(close) => <EditForm volume={volume} close={close} />}
        </Dialog>
      )}
      {rights.mayEdit && <Delete volume={volume} remove={remove} />}
    </>
  );
}

/** What lies in a folder, page after page, but no more than a person would wait for. */
async function filesIn(volume_id: string, folder: string): Promise<File_[]> {
  const found: File_[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const { items, next } = await take(api.GET('/api/v1/volumes/{volume_id}/files', { params: { path: { volume_id }, query: { ...(folder ? { path: folder } : {}), cursor } } }));
    found.push(...items);
    if (!next) break;
    cursor = next;
  }
  return found;
}

function EmptyFolder({ mayWrite, place }: { mayWrite: boolean; place: string }) {
  const t = useText(words);
  return (
    <Empty icon="data" title={t('emptyFolder')} command={mayWrite ? `berth cp ./data ${quote(place)}` : undefined}>
      {t(mayWrite ? 'emptyFolderHint' : 'emptyFolderRead')}
    </Empty>
  );
}

function Files({ volume, files, hasMore, mayWrite }: { volume: Volume; files: readonly File_[]; hasMore: boolean; mayWrite: boolean }) {
  const t = useText(words);
  const c = useText(common);
  const cache = useQueryClient();
  const [sought, setSought] = useState('');
  const remove = useCallback(
    async (path: string) => {
      await take(api.DELETE('/api/v1/volumes/{volume_id}/content', { params: { path: { volume_id: volume.id }, query: { path } } }));
      await cache.invalidateQueries({ queryKey: ['volume-files', volume.id] });
    },
    [cache, volume.id],
  );
  const rows = useMemo(() => {
    const needle = sought.trim().toLowerCase();
    const found = files.filter((file) => nameOf(file.path).toLowerCase().includes(needle));
    return [...found.filter((file) => file.kind === 'directory'), ...found.filter((file) => file.kind !== 'directory')];
  }, [files, sought]);
  const columns = useMemo<readonly Column<File_>[]>(
    () => [
      { key: 'name', header: c('name'), width: 'minmax(8rem, 3fr)', cell: (file) => <Entry volume={volume} file={file} /> },
      { key: 'size', header: t('size'), width: '6.5rem', cell: (file) => <Size file={file} /> },
      { key: 'modified', header: t('modified'), width: '9rem', isMinor: true, cell: (file) => <When at={file.modified_at} size="sm" /> },
      { key: 'actions', header: '', width: '5rem', cell: (file) => <Actions volume={volume} file={file} remove={mayWrite ? remove : null} /> },
    ],
    [t, c, volume, mayWrite, remove],
  );
  return (
    <Stack gap="sm">
      {files.length > SEARCH_FROM && <TextInput type="search" aria-label={t('search')} placeholder={t('search')} leftSection={<Icon name="search" size={16} />} value={sought} onChange={(event) => setSought(event.currentTarget.value)} maw={360} />}
      {rows.length === 0 ? (
        <Text c="dimmed">{t('noMatch')}</Text>
      ) : (
        <Rows label={t('files', { name: volume.name })} rows={rows} columns={columns} rowKey={(file) => file.path} height={`min(calc(100dvh - 22rem), ${rows.length * 44 + 48}px)`} />
      )}
      {hasMore && (
        <Text size="sm" c="dimmed" ta="center">
          {t('first', { count: files.length })}
        </Text>
      )}
    </Stack>
  );
}

function Entry({ volume, file }: { volume: Volume; file: File_ }) {
  const name = nameOf(file.path);
  if (file.kind === 'directory') {
    return (
      <Anchor component={Link} to={pageOf(volume.id, file.path)} fw={600} size="sm" title={name}>
        {name}/
      </Anchor>
    );
  }
  if (file.kind === 'file') {
    return (
      <Anchor href={contentOf(volume.id, file.path)} download={name} size="sm" title={name}>
        {name}
      </Anchor>
    );
  }
  return (
    <Text size="sm" c="dimmed" title={name} span>
      {name}
    </Text>
  );
}

function Size({ file }: { file: File_ }) {
  const t = useText(words);
  const format = useFormat();
  return (
    <Text size="sm" c="dimmed">
      {file.kind === 'file' ? format.bytes(file.size_bytes) : t(file.kind === 'directory' ? 'folder' : file.kind)}
    </Text>
  );
}

function Actions({ volume, file, remove }: { volume: Volume; file: File_; remove: ((path: string) => Promise<void>) | null }) {
  const t = useText(words);
  const c = useText(common);
  const name = nameOf(file.path);
  const [isAsking, setAsking] = useState(false);
  if (file.kind === 'directory') return null;
  return (
    <Group gap={4} wrap="nowrap" justify="flex-end">
      {file.kind === 'file' && (
        <ActionIcon component="a" href={contentOf(volume.id, file.path)} download={name} variant="subtle" color="gray" aria-label={t('downloadNamed', { name })}>
          <Icon name="download" size={16} />
        </ActionIcon>
      )}
      {remove && (
        <>
          <ActionIcon variant="subtle" color="red" aria-label={t('deleteNamed', { name })} aria-haspopup="dialog" onClick={() => setAsking(true)}>
            <Icon name="trash" size={16} />
          </ActionIcon>
          <Window opened={isAsking} onClose={() => setAsking(false)} title={t('delete')}>
            <Stack>
              <Text style={{ overflowWrap: 'anywhere' }}>{t('deleteFileAsk', { name: file.path })}</Text>
              <Group justify="flex-end">
                <Button variant="default" onClick={() => setAsking(false)}>
                  {c('cancel')}
                </Button>
                <Button
                  color="red"
                  data-autofocus
                  onClick={() => {
                    setAsking(false);
                    void remove(file.path).catch(notifyProblem);
                  }}
                >
                  {t('delete')}
                </Button>
              </Group>
            </Stack>
          </Window>
        </>
      )}
    </Group>
  );
}

function Replace({ names, close, go }: { names: readonly string[]; close: () => void; go: () => void }) {
  const t = useText(words);
  const c = useText(common);
  return (
    <Window onClose={close} title={t('replaceTitle')}>
      <Stack>
        <Text>{t('replaceAsk', { count: names.length })}</Text>
        <List size="sm">
          {names.slice(0, REPLACED_SHOWN).map((name) => (
            <List.Item key={name}>{name}</List.Item>
          ))}
          {names.length > REPLACED_SHOWN && <List.Item>…</List.Item>}
        </List>
        <Group justify="flex-end">
          <Button variant="default" onClick={close}>
            {c('cancel')}
          </Button>
          <Button onClick={go} data-autofocus>
            {t('replace')}
          </Button>
        </Group>
      </Stack>
    </Window>
  );
}

function Delete({ volume, remove }: { volume: Volume; remove: () => Promise<void> }) {
  const t = useText(words);
  const [typed, setTyped] = useState('');
  const act = async () => {
    if (typed.trim() !== volume.name) throw new Error(t('typeName'));
    await remove();
  };
  return (
    <Confirm label={t('delete')} title={t('delete')} color="red" variant="light" act={act}>
      <Stack gap="sm">
        <Text>{t(volume.kind === 'local' ? 'deleteAsk' : 'deleteAskElsewhere', { name: volume.name })}</Text>
        <TextInput label={t('typeName')} description={volume.name} value={typed} onChange={(event) => setTyped(event.currentTarget.value)} />
      </Stack>
    </Confirm>
  );
}
