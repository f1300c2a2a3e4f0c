import { expect, it } from 'vitest';

import { stopSaid } from './stopSaid';

it('a job that waited is stopped at once, and nobody is told that it had ended before', () => {
  expect(stopSaid({ state: 'stopped' })).toBe('isStopped');
});

it.each(['stopping', 'running', 'admitted', 'starting', 'queued'])('a job that is %s after it is on its way', (state) => {
  expect(stopSaid({ state })).toBe('isStopping');
});

it.each(['succeeded', 'failed'])('a job that %s before is told so', (state) => {
  expect(stopSaid({ state })).toBe('hadEnded');
});
