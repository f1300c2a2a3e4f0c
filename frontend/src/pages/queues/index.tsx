/** Queues: the board of all pools, and the board of one queue. */

import { Route, Routes } from 'react-router';

import One from './One';
import Overview from './Overview';
import { beginBoard } from './reads';

export function begin(address: URL): void {
  const id = address.pathname.split('/')[2];
  if (id) beginBoard(decodeURIComponent(id));
}

export default function Queues() {
  return (
    <Routes>
      <Route index element={<Overview />} />
      <Route path=":id" element={<One />} />
    </Routes>
  );
}
