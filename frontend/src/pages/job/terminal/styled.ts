/** The document as xterm sees it: the style elements that it makes carry the nonce that the page's policy asks for. */

export function documentWithNonce(real: Document): Document {
  const nonce = real.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? '';
  if (!nonce) return real;
  return new Proxy(real, {
    get(target, name) {
      if (name === 'createElement') {
        return (tag: string, options?: ElementCreationOptions) => {
          const element = target.createElement(tag, options);
          if (tag.toLowerCase() === 'style') element.setAttribute('nonce', nonce);
          return element;
        };
      }
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? (value as (...given: unknown[]) => unknown).bind(target) : value;
    },
  });
}
