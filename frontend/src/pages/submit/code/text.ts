/** Words about a folder of code. */

import { texts } from '@/text/language';

export const words = texts(
  {
    choose: 'Code folder',
    chooseHint: 'The folder that the job runs in: at most {size} packed, {count} files. Dropping it on this page does the same. What .berthignore names stays here.',
    label: 'Code folder {name}',
    reading: 'Looking at {name} …',
    packing: 'Packing {name} …',
    sending: 'Sending {name} …',
    done: '{name} comes along: {count} {count|file|files}, {size}, {packed} packed.',
    left: '{count} {count|file stays|files stay} here, as {file} says.',
    leftByDefault: '{count} {count|file stays|files stay} here: version control, caches and environments. {file} in the folder would say otherwise.',
    failed: '{name} could not be sent',
    tooMany: 'More than {count} files. Name what the job does not need in {file}, or put data on a volume.',
    tooLarge: 'More than {size} packed. Name what the job does not need in {file}, or put data on a volume.',
    empty: 'There is no file in it that would come along.',
    stop: 'Stop',
    remove: 'Leave the folder out',
    retry: 'Try again',
  },
  {
    choose: '代码目录',
    chooseHint: '作业运行所在的目录：打包后最大 {size}，最多 {count} 个文件。也可拖放到本页。.berthignore 所列的文件不上传。',
    label: '代码目录 {name}',
    reading: '正在查看 {name} …',
    packing: '正在打包 {name} …',
    sending: '正在上传 {name} …',
    done: '{name} 将随作业使用：{count} 个文件，{size}，打包后 {packed}。',
    left: '按 {file}，{count} 个文件不上传。',
    leftByDefault: '{count} 个文件不上传：版本库、缓存和环境。目录中的 {file} 可另作规定。',
    failed: '{name} 无法上传',
    tooMany: '超过 {count} 个文件。请在 {file} 中列出作业不需要的，或把数据放到存储卷。',
    tooLarge: '打包后超过 {size}。请在 {file} 中列出作业不需要的，或把数据放到存储卷。',
    empty: '其中没有可以上传的文件。',
    stop: '停止',
    remove: '不使用此目录',
    retry: '重试',
  },
);
