/** Words about a folder of code. */

import { texts } from '@/text/language';

export const words = texts(
  {
    choose: 'Code folder',
    chooseHint: 'The folder that the job runs in: at most {size} packed and {count} files. You can also drop it on this page. Files named in .berthignore are not uploaded.',
    label: 'Code folder {name}',
    reading: 'Reading {name} …',
    packing: 'Packing {name} …',
    sending: 'Uploading {name} …',
    done: '{name} is part of the job: {count} {count|file|files}, {size}, {packed} packed.',
    left: '{count} {count|file is|files are} not uploaded, as {file} says.',
    leftByDefault: '{count} {count|file is|files are} not uploaded: version control, caches and environments. A {file} in the folder changes that.',
    failed: '{name} could not be uploaded',
    tooMany: 'The folder has more than {count} files. List what the job does not need in {file}, or put data on a volume.',
    tooLarge: 'The folder is larger than {size} when packed. List what the job does not need in {file}, or put data on a volume.',
    empty: 'The folder contains no file to upload.',
    stop: 'Stop',
    remove: 'Remove the folder',
    retry: 'Try again',
  },
  {
    choose: '代码目录',
    chooseHint: '作业运行所在的目录：打包后最大 {size}，最多 {count} 个文件。也可拖放到本页。.berthignore 所列的文件不上传。',
    label: '代码目录 {name}',
    reading: '正在读取 {name} …',
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
