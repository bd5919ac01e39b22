/** Reads an address that a program printed or a server returned: `{"url":"…"}`, or the bare URL. */

/** Without a slash at its end. Undefined if there is none. */
export function addressIn(answer: string): string | undefined {
  const text = answer.trim()
  const url = text.startsWith('{') ? urlField(text) : text
  return url !== undefined && /^https?:\/\/\S+$/.test(url) && URL.canParse(url) ? url.replace(/\/+$/, '') : undefined
}

function urlField(text: string): string | undefined {
  try {
    const { url }: { url?: unknown } = { ...JSON.parse(text) }
    return typeof url === 'string' ? url : undefined
  } catch {
    return undefined // not JSON after all
  }
}
