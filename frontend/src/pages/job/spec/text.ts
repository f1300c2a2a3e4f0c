/** Words of a job's spec. */

import { texts } from '@/text/language';

export const words = texts(
  {
    asStored: 'The job file',
    digest: 'Digest {digest}',
    against: 'Against the job that it repeats',
    download: 'Download YAML',
    toOrigin: 'To that job',
    compare: 'Compare the two runs',
  },
  {
    asStored: '作业文件',
    digest: '摘要 {digest}',
    against: '与其来源作业相比',
    download: '下载 YAML',
    toOrigin: '查看该作业',
    compare: '比较两次运行',
  },
);
