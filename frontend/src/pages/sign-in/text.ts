/** Words of signing in. */

import { texts } from '@/text/language';

export const words = texts(
  {
    title: 'Sign in',
    slogan: 'A place on the cluster for every team’s jobs.',
    name: 'User name or e-mail',
    password: 'Password',
    code: 'Second-factor code',
    codeHint: 'Six digits from your app, or a recovery code.',
    signIn: 'Sign in',
    oidc: 'Continue with {name}',
    or: 'or',
    help: 'No account? Ask the operator of this installation for an invitation. On your own machine, `make up` prints the first name and password.',
    bad_credentials: 'The user name or the password is wrong.',
    bad_code: 'The code is wrong, or was used before.',
    locked: 'Too many attempts. Wait {seconds} seconds and try again.',
    lockedSome: 'Too many attempts. Wait a moment and try again.',
    oidcFailed: 'The sign-in with your provider failed ({code}). Try again, or ask the operator.',
    ended: 'Your session has ended. Sign in to continue where you were.',
    draftKept: 'Your unsubmitted job is kept in this tab. Only values that look like secrets must be entered again.',
  },
  {
    title: '登录',
    slogan: '让每个团队的作业各得其位。',
    name: '用户名或邮箱',
    password: '密码',
    code: '两步验证码',
    codeHint: '验证器应用中的六位数字，或一个恢复码。',
    signIn: '登录',
    oidc: '使用 {name} 登录',
    or: '或',
    help: '没有账户？请向本系统的运维人员索取邀请。在您自己的机器上，`make up` 会打印初始用户名和密码。',
    bad_credentials: '用户名或密码错误。',
    bad_code: '验证码不正确或已被使用。',
    locked: '尝试次数过多，请在 {seconds} 秒后重试。',
    lockedSome: '尝试次数过多，请稍后重试。',
    oidcFailed: '通过身份提供方登录失败（{code}）。请重试，或联系运维人员。',
    ended: '您的会话已结束。请登录以继续。',
    draftKept: '您正在编写的作业已保留在此标签页中；只有看起来像密钥的值需要重新输入。',
  },
);
