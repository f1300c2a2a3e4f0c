/** A time is typed in the zone of the preferences; one that is no moment, or two, is not sent before that is settled. */

import { MantineProvider } from '@mantine/core';
import { act, useState } from 'react';
import { createRoot, type Root } from 'react-dom/client';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { chooseZone } from '@/text/zone';

import { Form } from './Dialog';
import { MomentInput, type TypedMoment } from './MomentInput';

let root: Root;
const sent: TypedMoment[] = [];

function Booking({ first }: { first: string }) {
  const [from, setFrom] = useState<TypedMoment>(first);
  return (
    <Form label="Book" submit={async () => void sent.push(from)}>
      {() => <MomentInput label="From" value={from} onChange={setFrom} />}
    </Form>
  );
}

const draw = (first = '') => act(async () => root.render(<MantineProvider env="test"><Booking key={first} first={first} /></MantineProvider>)); // prettier-ignore
const field = () => document.querySelector<HTMLInputElement>('[type=datetime-local]') as HTMLInputElement;
const error = () => document.getElementById(field().getAttribute('aria-describedby') ?? '')?.textContent ?? '';
const choices = () => [...document.querySelectorAll<HTMLInputElement>('[role=radiogroup] [type=radio]')];
const press = () => act(async () => document.querySelector<HTMLElement>('[type=submit]')?.click());
const type = (text: string) =>
  act(async () => {
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')?.set?.call(field(), text);
    field().dispatchEvent(new Event('input', { bubbles: true }));
  });

beforeEach(() => {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: () => undefined, removeEventListener: () => undefined }));
  chooseZone('Europe/Berlin');
  sent.length = 0;
  root = createRoot(document.body.appendChild(document.createElement('div')));
});

afterEach(async () => {
  await act(async () => root.unmount());
  chooseZone('');
  vi.unstubAllGlobals();
  document.body.replaceChildren();
});

it('refuses a time that clocks leave out, and names those around it', async () => {
  await draw();
  await type('2027-03-28T02:30');
  expect(field().value).toBe('2027-03-28T02:30');
  expect(error()).toBe('2027-03-28 02:30 does not exist in Europe/Berlin: clocks go forward from 02:00 to 03:00. Enter 01:59 or 03:00.');
  await press();
  expect([sent, document.activeElement]).toEqual([[], field()]);
  await type('2027-03-28T03:00');
  expect(field().getAttribute('aria-invalid')).not.toBe('true');
  await press();
  expect(sent).toEqual(['2027-03-28T01:00:00.000Z']);
});

it('asks which of two is meant', async () => {
  await draw();
  await type('2027-10-31T02:30');
  expect(error()).toBe('2027-10-31 02:30 comes twice in Europe/Berlin: clocks go back over it. Choose which.');
  expect(choices().map((each) => [each.labels?.[0]?.textContent, each.checked])).toEqual([
    ['The first, UTC+02:00', false],
    ['The second, UTC+01:00', false],
  ]);
  await press();
  expect(sent).toEqual([]);
  await act(async () => choices()[1]?.click());
  expect(error()).toBe('');
  await press();
  expect(sent).toEqual(['2027-10-31T01:30:00.000Z']);
  await type('2027-10-31T02:45'); // Another time is another question.
  expect(choices().some((each) => each.checked)).toBe(false);
});

it('shows which of two a time of the API is, and leaves it as it came', async () => {
  await draw('2027-10-31T00:30:20Z');
  expect([field().value, choices().map((each) => each.checked), error()]).toEqual(['2027-10-31T02:30', [true, false], '']);
  await draw('2027-10-31T01:30:20Z');
  expect([field().value, choices().map((each) => each.checked), error()]).toEqual(['2027-10-31T02:30', [false, true], '']);
  await press();
  expect(sent).toEqual(['2027-10-31T01:30:20Z']);
  await act(async () => chooseZone('UTC'));
  expect([field().value, choices()]).toEqual(['2027-10-31T01:30', []]);
});
