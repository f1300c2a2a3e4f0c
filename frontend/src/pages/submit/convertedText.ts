/** Words about a file of another system. */

import { texts } from '@/text/language';

export const words = texts(
  {
    title: '{name} was converted to a Berth job',
    pasted: 'The pasted text',
    openpai: 'The file was written for OpenPAI.',
    sbatch: 'The file was written for Slurm (sbatch).',
    lost: 'Lost: no longer in the job ({count})',
    changed: 'Changed: different in Berth ({count})',
    carried: 'Carried over ({count})',
    same: 'Every part of the file means the same in Berth.',
    line: 'line {line}',
    dismiss: 'Dismiss these notes',
    failed: '{name} could not be converted',
    cliHint: 'The same on the command line: berth convert FILE > job.yaml',
  },
  {
    title: '{name} 已转换为 Berth 作业',
    pasted: '粘贴的内容',
    openpai: '原为 OpenPAI 编写。',
    sbatch: '原为 Slurm（sbatch）编写。',
    lost: '未保留：作业中不再有（{count}）',
    changed: '有变化：在这里略有不同（{count}）',
    carried: '已保留（{count}）',
    same: '文件的每一部分在 Berth 中含义相同。',
    line: '第 {line} 行',
    dismiss: '关闭这些说明',
    failed: '{name} 无法转换为作业',
    cliHint: '命令行中同样可行：berth convert 文件 > job.yaml',
  },
);
