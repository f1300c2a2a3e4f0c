/** Tenants as a tree, and one tenant with all that belongs to it. */

import { Route, Routes } from 'react-router';

import Tenant from './Tenant';
import Tree from './Tree';

export default function Tenants() {
  return (
    <Routes>
      <Route index element={<Tree />} />
      <Route path=":slug/:tab?" element={<Tenant />} />
    </Routes>
  );
}
