/** Templates: the gallery, one of them, and writing one. */

import { Route, Routes } from 'react-router';

import { EditOne, NewOne } from './Edit';
import { Gallery } from './Gallery';
import { One } from './One';

export default function Templates() {
  return (
    <Routes>
      <Route index element={<Gallery />} />
      <Route path="new" element={<NewOne />} />
      <Route path=":id" element={<One />} />
      <Route path=":id/edit" element={<EditOne />} />
    </Routes>
  );
}
