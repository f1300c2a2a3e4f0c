/** Nodes, for operators: all of them, and one close up. */

import { Route, Routes } from 'react-router';

import List from './List';
import One from './One';

export default function Nodes() {
  return (
    <Routes>
      <Route index element={<List />} />
      <Route path=":id" element={<One />} />
    </Routes>
  );
}
