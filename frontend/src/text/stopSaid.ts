import { texts } from './language';

/** What a stop came to: a job that waits is stopped at once, one that ran is on its way, and one that had ended stays as it was. */
export function stopSaid(after: { state: string }): 'isStopped' | 'isStopping' | 'hadEnded' {
  if (after.state === 'stopped') return 'isStopped';
  return after.state === 'succeeded' || after.state === 'failed' ? 'hadEnded' : 'isStopping';
}

export const stopWords = texts(
  {
    isStopped: 'The job is stopped.',
    isStopping: 'The job is stopping.',
    hadEnded: 'The job had already ended: {state}.',
  },
  {
    isStopped: '作业已停止。',
    isStopping: '作业正在停止。',
    hadEnded: '作业此前已结束：{state}。',
  },
);
