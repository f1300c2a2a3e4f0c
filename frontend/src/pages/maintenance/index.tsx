import { Page } from '@/ui/Page';

export default function Stub() {
  return <Page title="maintenance">{null}</Page>;
}
