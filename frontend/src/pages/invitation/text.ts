/** Words of the page that an invitation's link opens. */

import { texts } from '@/text/language';

export const words = texts(
  {
    title: 'You are invited',
    intro: 'Choose a user name and a password: the invitation creates your account and signs you in.',
    introKnown: 'You are signed in as {name}. The invitation adds the tenant to this account.',
    code: 'Invitation code',
    codeHint: 'The code works once, within 7 days.',
    name: 'User name',
    password: 'Password',
    again: 'Repeat the password',
    differs: 'The two passwords differ.',
    join: 'Join',
    have: 'I have an account: sign in, then open this link again',
    joined: 'Welcome to {tenant}. Your role: {role}.',
    introNamed: 'Your account already exists. Choose a password: the invitation signs you in.',
    offer: '{tenant}, as {role}',
    offerBy: 'For {email}, invited by {name}.',
    offerFor: 'For {email}.',
    nameFixed: 'The name of your account; it cannot be changed.',
  },
  {
    title: '您收到了邀请',
    intro: '设置用户名和密码：邀请会创建您的账户并登录。',
    introKnown: '您已登录为 {name}。邀请会将该租户加入此账户。',
    code: '邀请码',
    codeHint: '7 天内只能使用一次。',
    name: '用户名',
    password: '密码',
    again: '再次输入密码',
    differs: '两次输入的密码不同。',
    join: '加入',
    have: '我已有账户：先登录，再打开此链接',
    joined: '欢迎加入 {tenant}。您的角色：{role}。',
    introNamed: '您的账户已建好。请设置密码：邀请会让您登录。',
    offer: '{tenant}，角色：{role}',
    offerBy: '受邀人：{email}，邀请人：{name}。',
    offerFor: '受邀人：{email}。',
    nameFixed: '您账户的用户名，不能更改。',
  },
);
