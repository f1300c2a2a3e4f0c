import { Page } from '@/ui/Page';

export default function Stub() {
  return <Page title="data">{null}</Page>;
}
