/** Words of the terminal in a task. */

import { texts } from '@/text/language';

export const words = texts(
  {
    terminal: 'Terminal in {task}',
    task: 'Task',
    open: 'Open a terminal',
    again: 'Open it again',
    close: 'Close',
    noTask: 'No task is running',
    noTaskHint: 'A terminal can be opened in a task while it runs.',
    hint: 'A shell beside the task, with the same files, devices and limits. Your session is recorded under your name. Shift+Esc leaves the terminal by keyboard.',
    connecting: 'Connecting …',
    connected: 'Connected to {task}',
    ended: 'The shell has ended with code {code}.',
    endedUnknown: 'The shell has ended.',
    idle: 'The shell was closed after a long time without input.',
    lost: 'The connection was lost, and the shell ended with it.',
    forbidden: 'You may not open a terminal here.',
    missing: 'This task does not exist, or has ended.',
    busy: 'You have too many terminals open.',
  },
  {
    terminal: '{task} 的终端',
    task: '任务',
    open: '打开终端',
    again: '重新打开',
    close: '关闭',
    noTask: '目前没有运行中的任务',
    noTaskHint: '任务运行时可以打开终端。',
    hint: '与任务并列的 shell，可访问其文件、设备并受其限制。其中的操作以您的名义记录。按 Shift+Esc 可用键盘离开。',
    connecting: '正在连接……',
    connected: '已连接到 {task}',
    ended: 'shell 已结束，退出码 {code}。',
    endedUnknown: 'shell 已结束。',
    idle: 'shell 因长时间没有输入而关闭。',
    lost: '连接已断开，shell 随之结束。',
    forbidden: '您不能在此打开终端。',
    missing: '没有此任务，或它已结束。',
    busy: '您打开的终端过多。',
  },
);
