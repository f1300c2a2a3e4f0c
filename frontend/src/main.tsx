/** Puts the portal into the page. */

import '@mantine/core/styles.css';
import '@mantine/notifications/styles.css';
import './base.css';

import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';

import { App } from './app/App';
import { begin } from './app/begin';
import { offerNonce } from './app/nonce';
import { tellWholeText } from './app/wholeText';

offerNonce();
tellWholeText();
const file = begin();

const root = document.getElementById('root');
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App file={file} />
    </StrictMode>,
  );
}
