/** A password that can be looked at. Mantine's says to the eyes alone that it is wrong, and names its button in English. */

import { PasswordInput, type PasswordInputProps } from '@mantine/core';

import { common } from '@/text/common';
import { useText } from '@/text/language';

export function PasswordField({ error, ...props }: Omit<PasswordInputProps, 'visibilityToggleButtonProps'>) {
  const t = useText(common);
  return <PasswordInput {...props} error={error} aria-invalid={error ? true : undefined} visibilityToggleButtonProps={{ 'aria-label': t('showPassword') }} />;
}
