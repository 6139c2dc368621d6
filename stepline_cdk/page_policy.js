// Adds the hosts that the page may call to its policy. A CloudFront function: it runs behind the response headers policy, whose own
// policy allows the page's host alone. The hosts are metadata of index.html, because they are made after the distribution.
function handler(event) {
  const response = event.response;
  const headers = response.headers;
  const policy = headers["content-security-policy"];
  const hosts = headers["x-amz-meta-connect"];
  if (response.statusCode === 304) {
    // The browser keeps the policy that it has; this one may lack the hosts.
    delete headers["content-security-policy"];
  } else if (policy && hosts) {
    policy.value = policy.value.replace("connect-src 'self'", "connect-src 'self' " + hosts.value);
  }
  delete headers["x-amz-meta-connect"];
  return response;
}
