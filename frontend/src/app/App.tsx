/** Language, theme, the session; then the pages, or the sign-in. */

import { Box, Center, MantineProvider } from '@mantine/core';
import { QueryClientProvider, useQuery } from '@tanstack/react-query';
import { lazy, Suspense, useCallback, useEffect, useState } from 'react';
import { BrowserRouter } from 'react-router';

import { queries } from '@/api/query';
import { featuresQuery, SessionProvider, sessionQuery } from '@/api/session';
import { startLanguage, keepLanguage, LanguageProvider, type Language } from '@/text/language';
import { Loading, ProblemView } from '@/ui/Feedback';
import { useIsNotified } from '@/ui/notify';

import { PageBoundary } from './Boundary';
import { nonce } from './nonce';
import { Pages } from './routes';
import { theme, variables } from './theme';

const SignIn = lazy(() => import('@/pages/sign-in'));
const Invitation = lazy(() => import('@/pages/invitation'));
const Notifications = lazy(() => import('@mantine/notifications').then((module) => ({ default: module.Notifications })));

/** `file`: the one of the page that was asked for, where it is on its way. */
export function App({ file }: { file?: Promise<void> }) {
  const [language, setLanguage] = useState<Language>(startLanguage);
  const choose = useCallback((chosen: Language) => {
    keepLanguage(chosen);
    setLanguage(chosen);
    void queries.invalidateQueries(); // The server's own words come in the language asked for.
  }, []);
  return (
    <LanguageProvider language={language} choose={choose}>
      <MantineProvider theme={theme} cssVariablesResolver={variables} defaultColorScheme="auto" getStyleNonce={nonce}>
        <QueryClientProvider client={queries}>
          <Corner />
          <BrowserRouter>
            <PageBoundary>
              <Suspense fallback={<Waiting />}>
                <Gate file={file} />
              </Suspense>
            </PageBoundary>
          </BrowserRouter>
        </QueryClientProvider>
      </MantineProvider>
    </LanguageProvider>
  );
}

function Gate({ file }: { file?: Promise<void> }) {
  const [isHere, setHere] = useState(file === undefined);
  useEffect(() => void file?.then(() => setHere(true)), [file]);
  const session = useQuery(sessionQuery);
  const features = useQuery({ ...featuresQuery, enabled: Boolean(session.data) });
  if (session.data && isHere && (features.data || features.error)) {
    return (
      <SessionProvider who={session.data} features={features.data ?? null}>
        <Pages />
      </SessionProvider>
    );
  }
  if (session.data) return <Waiting />;
  if (session.data === null) return location.pathname === '/invitation' ? <Invitation /> : <SignIn />;
  if (session.error) {
    return (
      <Center mih="100vh" p="md">
        <ProblemView error={session.error} retry={() => void session.refetch()} />
      </Center>
    );
  }
  return <Waiting />;
}

/** Where short words come up; not before there is one. */
function Corner() {
  return (
    useIsNotified() && (
      <Suspense fallback={null}>
        <Notifications position="bottom-right" />
      </Suspense>
    )
  );
}

function Waiting() {
  return (
    <Box p="xl" maw={900} mx="auto">
      <Loading lines={6} />
    </Box>
  );
}
