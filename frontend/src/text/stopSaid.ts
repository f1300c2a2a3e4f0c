import { texts } from './language';

/** What a stop came to: a job that waits is stopped at once, one that ran is on its way, and one that had ended stays as it was. */
export function stopSaid(after: { state: string }): 'isStopped' | 'isStopping' | 'hadEnded' {
  if (after.state === 'stopped') return 'isStopped';
  return after.state === 'succeeded' || after.state === 'failed' ? 'hadEnded' : 'isStopping';
}

export const stopWords = texts(
  {
    isStopped: 'It is stopped.',
    isStopping: 'It is told to stop.',
    hadEnded: 'It had already ended: {state}.',
  },
  {
    isStopped: '已停止。',
    isStopping: '已通知停止。',
    hadEnded: '此前已结束：{state}。',
  },
);
