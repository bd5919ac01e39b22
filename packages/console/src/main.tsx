/** The page's entry. The ticket leaves the address before anything else happens. */
import { effect } from '@preact/signals'
import { render } from 'preact'
import { App } from './app.tsx'
import { startTicking } from './link/clock.ts'
import { link, startLogin, logIn } from './link/connection.ts'
import { takeFromAddress } from './link/token.ts'
import { startRouting } from './ui/route.ts'
import { loadLater } from './text/load-later.ts'

const given = takeFromAddress()
addEventListener('hashchange', () => {
  const pasted = takeFromAddress() // a new link into a tab that shows the page already
  if (pasted.ticket !== undefined || pasted.token !== undefined) void logIn(pasted)
})
startRouting()
startTicking()
const root = document.getElementById('app')
if (root !== null) render(<App />, root)
void startLogin(given)
requestAnimationFrame(() => loadLater())
effect(() => {
  if (link.state.value.kind === 'open') loadLater()
})
