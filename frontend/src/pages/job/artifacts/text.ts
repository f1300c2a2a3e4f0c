/** Words of a job's outputs. */

import { texts } from '@/text/language';

export const words = texts(
  {
    artifacts: 'Outputs',
    path: 'Path',
    size: 'Size',
    checksum: 'SHA-256',
    stored: 'Stored',
    none: 'It left nothing behind',
    noneHint: 'Name what is to be kept under `outputs` in the spec: files and folders below the working directory.',
    notYet: 'Nothing yet',
    notYetHint: 'Outputs are stored when an attempt ends.',
    storing: 'They are still being stored.',
    left: 'Not everything was kept',
    downloadFile: 'Download {path}',
    sum: '{count} {count|file|files}, {size}',
    sumMore: 'more than {count} files',
    all: 'All as one archive (tar)',
  },
  {
    artifacts: '输出',
    path: '路径',
    size: '大小',
    checksum: 'SHA-256',
    stored: '存于',
    none: '没有留下任何输出',
    noneHint: '请在规格的 `outputs` 中写明要保留的内容：工作目录下的文件和文件夹。',
    notYet: '暂无输出',
    notYetHint: '输出在一次尝试结束时保存。',
    storing: '仍在保存中。',
    left: '并非全部都已保留',
    downloadFile: '下载 {path}',
    sum: '{count} 个文件，{size}',
    sumMore: '超过 {count} 个文件',
    all: '全部打包下载（tar）',
  },
);
