import { texts } from '@/text/language';

export const words = texts(
  {
    leftOut: '{time} does not exist in {zone}: clocks go forward from {from} to {to}. Enter {before} or {to}.',
    twice: '{time} comes twice in {zone}: clocks go back over it. Choose which.',
    which: 'Which {time}',
    first: 'The first, UTC{distance}',
    second: 'The second, UTC{distance}',
  },
  {
    leftOut: '{zone} 没有 {time} 这一时刻：时钟在此时从 {from} 拨快到 {to}。请输入 {before} 或 {to}。',
    twice: '{time} 在 {zone} 出现两次：时钟在此时拨回。请选择是哪一次。',
    which: '哪一次 {time}',
    first: '第一次，UTC{distance}',
    second: '第二次，UTC{distance}',
  },
);
