/** No token yet: one field, and how to get one. The page that was asked for opens afterwards. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import { Logo } from '../ui/labels.tsx'
import { login, logIn } from '../link/connection.ts'
import { readPasted } from '../link/token.ts'

export function LoginScreen(): VNode {
  const [text, setText] = useState('')
  const state = login.value
  const why = state.kind === 'closed' ? state.why : null
  return (
    <main class="login">
      <span class="brand">
        <Logo />
      </span>
      <h1>Open the console</h1>
      <p>
        Run <code>breakfall open</code> on the daemon's machine. It opens this page with a link that works once. Or
        paste the token from the daemon's token file, which <code>breakfall up</code> prints.
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          void logIn(readPasted(text))
        }}
      >
        <input type="text" name="username" autoComplete="username" value="breakfall" readOnly hidden />
        <label for="token">Token</label>
        <input
          id="token"
          type="password"
          autoComplete="current-password"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          aria-describedby={why === null ? undefined : 'login-why'}
        />
        <div class="row">
          <button type="submit" class="primary" aria-disabled={text.trim() === ''}>
            Open
          </button>
          <a href="#/bundle">Open a bundle instead</a>
        </div>
        {why === null ? null : (
          <p id="login-why" role="alert" class="notice tone-failed">
            {why}
          </p>
        )}
      </form>
    </main>
  )
}
