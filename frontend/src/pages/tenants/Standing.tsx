/** Disabling a tenant, enabling and deleting it: an operator is told first whom it touches and what goes. */

import { Alert, List, Stack, Switch, Text, Textarea, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useNavigate } from 'react-router';

import { api, take } from '@/api/client';
import { queries } from '@/api/query';
import { SESSION_KEY } from '@/api/session';
import { useText } from '@/text/language';
import { Confirm } from '@/ui/Confirm';
import { Dialog, Form } from '@/ui/Dialog';
import { Answer } from '@/ui/Feedback';
import { Icon } from '@/ui/Icon';

import type { TenantOut } from './Tenant';
import { words } from './text';

const renew = (tenant: TenantOut) => Promise.all([queries.invalidateQueries({ queryKey: ['tenant', tenant.slug] }), queries.invalidateQueries({ queryKey: ['tenants'] }), queries.invalidateQueries({ queryKey: SESSION_KEY })]);
const pathOf = (tenant: TenantOut) => ({ path: { tenant: tenant.slug } });

/** What everybody sees of a tenant in which nothing begins. */
export function DisabledNotice({ tenant }: { tenant: TenantOut }) {
  const t = useText(words);
  if (!tenant.is_disabled) return null;
  return (
    <Alert color="orange" icon={<Icon name="stop" size={18} />} title={t(tenant.deleted_at ? 'isDeleted' : tenant.disabled_at ? 'isDisabled' : 'isDisabledAbove')} mb="md">
      {tenant.disabled_reason && <Text style={{ overflowWrap: 'anywhere' }}>{tenant.disabled_reason}</Text>}
      <Text size="sm">{t('isDisabledMeans')}</Text>
    </Alert>
  );
}

/** The operators' buttons. */
export function Standing({ tenant }: { tenant: TenantOut }) {
  const t = useText(words);
  if (tenant.deleted_at) return null;
  return (
    <>
      <Dialog label={t(tenant.disabled_at ? 'changeReason' : 'disable')} title={t('disableTitle', { name: tenant.name })} variant="default" leftSection={<Icon name="stop" size={16} />}>
        {(close) => <DisableForm tenant={tenant} close={close} />}
      </Dialog>
      {tenant.disabled_at && (
        <>
          <Confirm
            label={t('enable')}
            title={t('enableTitle', { name: tenant.name })}
            color="teal"
            act={async () => {
              await take(api.POST('/api/v1/tenants/{tenant}/enable', { params: pathOf(tenant) }));
              await renew(tenant);
            }}
          >
            {t('enableMeans')}
          </Confirm>
          <Dialog label={t('delete')} title={t('deleteTitle', { name: tenant.name })} color="red" variant="light">
            {(close) => <DeleteForm tenant={tenant} close={close} />}
          </Dialog>
        </>
      )}
    </>
  );
}

function DisableForm({ tenant, close }: { tenant: TenantOut; close: () => void }) {
  const t = useText(words);
  const [reason, setReason] = useState(tenant.disabled_reason);
  const [stops, setStops] = useState(false);
  const touched = useQuery({
    queryKey: ['tenant', tenant.slug, 'disable'],
    queryFn: () => take(api.POST('/api/v1/tenants/{tenant}/disable', { params: { ...pathOf(tenant), query: { dry_run: true } }, body: { reason: '', stop_jobs: false } })),
    gcTime: 0,
  });
  const submit = async () => {
    await take(api.POST('/api/v1/tenants/{tenant}/disable', { params: pathOf(tenant), body: { reason: reason.trim(), stop_jobs: stops } }));
    await renew(tenant);
    close();
  };
  return (
    <Answer query={touched} lines={3}>
      {(plan) => (
        <Form submit={submit} onCancel={close} label={t('disable')} color="red">
          {(at) => (
            <>
              <List size="sm">
                <List.Item>{t('disablePeople', { people: plan.people, tenants: plan.tenants })}</List.Item>
                <List.Item>{t('disableWaiting', { count: plan.waiting })}</List.Item>
                <List.Item>{t(stops ? 'disableStops' : 'disableRuns', { count: plan.running })}</List.Item>
                <List.Item>{t('disableReads')}</List.Item>
              </List>
              <Textarea label={t('reason')} description={t('reasonHint')} value={reason} onChange={(event) => setReason(event.currentTarget.value)} error={at('/reason')} autosize minRows={2} data-autofocus />
              <Switch label={t('stopJobs')} checked={stops} onChange={(event) => setStops(event.currentTarget.checked)} error={at('/stop_jobs')} />
            </>
          )}
        </Form>
      )}
    </Answer>
  );
}

function DeleteForm({ tenant, close }: { tenant: TenantOut; close: () => void }) {
  const t = useText(words);
  const navigate = useNavigate();
  const [confirm, setConfirm] = useState('');
  const plan = useQuery({
    queryKey: ['tenant', tenant.slug, 'delete'],
    queryFn: () => take(api.POST('/api/v1/tenants/{tenant}/delete', { params: { ...pathOf(tenant), query: { dry_run: true } }, body: { confirm: '' } })),
    gcTime: 0,
  });
  const submit = async (name: string) => {
    await take(api.POST('/api/v1/tenants/{tenant}/delete', { params: { ...pathOf(tenant), query: { plan: name } }, body: { confirm } }));
    close();
    void navigate('/tenants');
    await renew(tenant);
  };
  return (
    <Answer query={plan} lines={4}>
      {(told) => (
        <Form submit={() => submit(told.plan)} onCancel={close} label={t('delete')} color="red" isReady={confirm === tenant.name}>
          {(at) => (
            <Stack gap="xs">
              <Text size="sm">{t('deleteGoes', { ...told.goes })}</Text>
              <Text size="sm">{t('deleteStays', { count: told.stays.jobs })}</Text>
              <Text size="sm">{t('deleteNeeds')}</Text>
              <TextInput label={t('typeName', { name: tenant.name })} value={confirm} onChange={(event) => setConfirm(event.currentTarget.value)} error={at('/confirm')} autoComplete="off" data-autofocus />
            </Stack>
          )}
        </Form>
      )}
    </Answer>
  );
}
