/** Words of a job's artifacts. */

import { texts } from '@/text/language';

export const words = texts(
  {
    artifacts: 'Artifacts',
    path: 'Path',
    size: 'Size',
    checksum: 'SHA-256',
    stored: 'Stored',
    none: 'No artifacts',
    noneHint: 'List the files and folders to keep under `outputs` in the spec, relative to the working directory.',
    notYet: 'No artifacts yet',
    notYetHint: 'Artifacts are stored when an attempt ends.',
    storing: 'Artifacts are still being stored.',
    left: 'Some outputs were not kept',
    downloadFile: 'Download {path}',
    sum: '{count} {count|file|files}, {size}',
    sumMore: 'more than {count} files',
    all: 'All as one archive (tar)',
  },
  {
    artifacts: '产物',
    path: '路径',
    size: '大小',
    checksum: 'SHA-256',
    stored: '存于',
    none: '没有产物',
    noneHint: '请在规格的 `outputs` 中写明要保留的内容：工作目录下的文件和文件夹。',
    notYet: '暂无产物',
    notYetHint: '产物在一次尝试结束时保存。',
    storing: '产物仍在保存中。',
    left: '部分产物未能保留',
    downloadFile: '下载 {path}',
    sum: '{count} 个文件，{size}',
    sumMore: '超过 {count} 个文件',
    all: '全部打包下载（tar）',
  },
);
