/** Words of a job's spec. */

import { texts } from '@/text/language';

export const words = texts(
  {
    asStored: 'The spec as stored',
    digest: 'Digest {digest}',
    against: 'Against the job that it repeats',
    download: 'Download YAML',
    toOrigin: 'To that job',
  },
  {
    asStored: '所存的规格',
    digest: '摘要 {digest}',
    against: '与其来源作业相比',
    download: '下载 YAML',
    toOrigin: '查看该作业',
  },
);
