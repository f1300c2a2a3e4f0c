/** Queues: the board of all pools, and the board of one queue. */

import { Route, Routes } from 'react-router';

import One from './One';
import Overview from './Overview';

export default function Queues() {
  return (
    <Routes>
      <Route index element={<Overview />} />
      <Route path=":id" element={<One />} />
    </Routes>
  );
}
