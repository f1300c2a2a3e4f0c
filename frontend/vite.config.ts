import react from '@vitejs/plugin-react';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

// A platform that runs, for `npm run dev`: its API and its live channels behind Vite's own server.
const platform = process.env.BERTH_SERVER ?? 'http://127.0.0.1:8620';

export default defineConfig({
  plugins: [react()],
  resolve: { alias: { '@': fileURLToPath(new URL('./src', import.meta.url)) } },
  build: {
    target: 'es2022',
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'], // They know light-dark(); a build for older ones would ask the system, not the person.
    assetsInlineLimit: 0, // The policy allows no data: scripts, and a file is cached.
    modulePreload: { polyfill: false }, // The polyfill is an inline script.
    chunkSizeWarningLimit: 700,
    // What many pages share comes as one file: fifty small ones cost a visit more than their bytes do.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: 'shared', minShareCount: 12 }] } } },
  },
  server: {
    proxy: Object.fromEntries(
      ['/api', '/readyz', '/ws', '/sign-in/oidc', '/docs'].map((path) => [
        path,
        { target: platform, changeOrigin: true, ws: path === '/ws', headers: { origin: platform } },
      ]),
    ),
  },
  // The first test of a file also loads its modules, at the lowest priority beside other checks on the same cores: limits only end what hangs.
  test: { environment: 'jsdom', include: ['src/**/*.test.{ts,tsx}'], setupFiles: ['src/testing/setup.ts'], testTimeout: 180_000, hookTimeout: 180_000 },
});
