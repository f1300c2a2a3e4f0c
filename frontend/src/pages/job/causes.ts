/** Why a job moved on, in words: events and phases come with a code. A code that is not here shows itself. */

import { texts } from '@/text/language';

export const causes = texts(
  {
    submitted: 'submitted',
    admitted: 'a place was found',
    adopted: 'given back after a restore',
    launched: 'the cluster accepted it',
    started: 'all its tasks run',
    completing: 'its end is decided; the rest is being stopped',
    making_way: 'makes way for an older right',
    moving_away: 'moves to other nodes for a larger job',
    evening_out: 'makes way for a queue that holds less',
    draining: 'its node is being drained',
    stopping: 'a stop was asked for',
    max_runtime: 'its longest run is over',
    dependency_met: 'what it depended on is done',
    derived: 'follows its single jobs',
    edited: 'changed',
    released: 'released',
    retrying: 'is tried again',
    preempted: 'made way for others',
    success: 'succeeded',
    stopped_by_user: 'stopped by somebody',
    stopped_before_start: 'stopped before it started',
  },
  {
    submitted: '已提交',
    admitted: '已找到位置',
    adopted: '恢复备份后归还',
    launched: '集群已接受',
    started: '所有任务已运行',
    completing: '结局已定，正在停止其余任务',
    making_way: '为更有权者让出',
    moving_away: '为更大的作业迁往其他节点',
    evening_out: '为占用较少的队列让出',
    draining: '节点正在排空',
    stopping: '已请求停止',
    max_runtime: '已达最长运行时间',
    dependency_met: '依赖已满足',
    derived: '随其中的作业变化',
    edited: '已修改',
    released: '已释放',
    retrying: '重试',
    preempted: '让给其他作业',
    success: '成功',
    stopped_by_user: '被人停止',
    stopped_before_start: '启动前被停止',
  },
);

type CauseCode = keyof typeof causes.en;

export function causeText(t: (key: CauseCode) => string, code: string | null): string {
  if (!code) return '';
  return code in causes.en ? t(code as CauseCode) : code.replaceAll('_', ' ');
}
