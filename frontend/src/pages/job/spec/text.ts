/** Words of a job's spec. */

import { texts } from '@/text/language';

export const words = texts(
  {
    asStored: 'The job file',
    digest: 'Digest {digest}',
    against: 'Compared with the original job',
    download: 'Download YAML',
    toOrigin: 'Open the original job',
    compare: 'Compare the two runs',
  },
  {
    asStored: '作业文件',
    digest: '摘要 {digest}',
    against: '与原作业相比',
    download: '下载 YAML',
    toOrigin: '查看原作业',
    compare: '比较两次运行',
  },
);
